"""A stand-in for the `flux` command, for tests on real pods where flux-core cannot be had.

It has flux-core's command line as MiniClusters and their users use it: brokers of different pods find
each other by the host list of the broker's configuration, prove that they share the CURVE certificate, wait
for their quorum, schedule and run tasks on all ranks, and end with the exit code of the initial program.
It refuses unknown flags and commands, as flux does: a script that passes here uses existing flags only.

What it is not:

- The overlay is flat: every rank talks to rank 0, over TCP with a challenge and no encryption.
- A batch job runs its script on one rank with a job list and a share of the cores of its own, not in a
  broker of its own.
- There is one queue, first come first served, whatever policy the configuration names.
- There is no content store but job history; `content.dump` and `content.restore` carry
  those.  No guest users, no modules, no MPI bootstrap (PMI).
- rc1 and rc3 are a pause, the archive, and the scripts of FLUX_RC_EXTRA.
- Formats of `-o` know a handful of fields.

Only the standard library of Python 3.11 is used.
"""
