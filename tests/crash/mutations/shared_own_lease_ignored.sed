# fs/shared/held.cc
# a member relies on what it holds however old its last renewal is
# shared
s/BootClock::now() < valid_until_/true/
