"""The operator with watches that are closed after so many seconds without data (arguments: seconds, port).

For tests alone, so it is not a setting: real API servers always send bookmarks every minute.
"""

from __future__ import annotations

import sys

from fournos.app.run import main
from fournos.engine.kube.reflector import Reflector

if __name__ == "__main__":
    defaults = Reflector.__init__.__kwdefaults__
    assert defaults is not None
    assert "inactivity" in defaults
    defaults["inactivity"] = float(sys.argv[1])
    sys.exit(main(health_port=int(sys.argv[2])))
