# transport/volume/replay.cc
# what was written and not committed is not written again to a brick that restarted
# faults
s/  TRY(rewrite(records));//
