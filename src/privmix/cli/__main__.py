"""`python -m privmix.cli`: the command `privmix`."""

from privmix.cli import main

main()
