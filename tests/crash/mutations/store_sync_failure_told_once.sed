# server/store/group_sync.cc
# only who ran the sync that failed learns of it
# store
s/^  return failure_;/  const Status mine = failure_;\n  failure_ = Status();\n  return mine;/
s/^    failed_ = true;//
