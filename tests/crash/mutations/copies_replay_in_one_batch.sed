# transport/volume/replay.cc
# a replay writes a journal together with what it refers to
# explore --bricks 2 --copies 2 --max-ops 2
s/  std::ranges::stable_sort(records, {}, &ReplayLog::Record::stage);//;s/if (next_stage || /if ((next_stage \&\& records.empty()) || /
