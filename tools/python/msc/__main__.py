"""python3 -m msc ARGUMENTS, and the command msc of an installed package: the program msc with these arguments."""
import os
import sys

from msc import native


def main():
    program = native.find_program()
    if os.path.realpath(program) == os.path.realpath(sys.argv[0]):
        sys.exit("msc: the package is installed without the program; `ninja wheel` makes one that has it")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
