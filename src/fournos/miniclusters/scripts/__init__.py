"""The parts of the scripts that containers run, as plain shell files.

A script is a header that the operator writes (assignments), the user's own code, and parts that are the same
for all.  What a part reads is named in its first lines.
"""
