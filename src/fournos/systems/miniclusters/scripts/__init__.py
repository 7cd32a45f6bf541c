"""The parts of the containers' scripts, as plain shell files.

A script consists of a header that the operator generates (assignments), the user's code, and parts that are
the same for all. The first lines of a part name the variables that it reads.
"""
