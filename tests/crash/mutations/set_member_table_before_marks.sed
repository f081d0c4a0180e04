# transport/volume/volume_set_open.cc
# the member table has a brick before that has a mark
# explore --bricks 2 --max-ops 0
/const MemberMark mark{/,/candidates_/s/    TRY(write_member_mark(member(place), mark));/    if (place + 1 == set_.places()) TRY(write_member_table(member(0), table));\n    TRY(write_member_mark(member(place), mark));/
