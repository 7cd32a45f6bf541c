#!/usr/bin/env python3
"""Vault entries to Secrets: `python hacks/sync_vault_secrets.py -n psap-secrets [--dry-run]`.

The work is done by `fournos.systems.vault`; this file is where the documentation says that it is.
"""

import sys
from pathlib import Path

# A checkout works without being installed, as long as its dependencies are there.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

try:
    from fournos.systems.vault.sync import main
except ModuleNotFoundError as error:
    sys.exit(
        f"error: {error}. Activate the environment (source .venv/bin/activate),"
        " or use: make sync-vault-secrets"
    )

if __name__ == "__main__":
    sys.exit(main())
