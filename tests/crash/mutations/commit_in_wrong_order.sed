# transport/volume/replay_log.cc
# a commit makes the journal durable before the data
s/  for (auto& stage : stages) {/  std::swap(stages[0], stages[1]);\n&/
