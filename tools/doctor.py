"""Say what is installed, what works, and how to mend the rest: ``python tools/doctor.py``."""

import sys

from mmvisattn.hosts.doctor import main

if __name__ == "__main__":
    sys.exit(main())
