# fs/shared/held.cc
# a member goes on to hold the attributes that it changes
# shared
/^void Held::Change::of(Ino ino) {/,/^}/s/ held_.drop_attributes(found->second);/ {}/
