# fs/shared/coordinator_recalls.cc
# a recall of where bytes are is not carried out
# shared
s/  held_.recall(recall.ino, recall.kinds);/  if (!any(recall.kinds \& Lease::kData)) held_.recall(recall.ino, recall.kinds);/; s/  if (data_ != nullptr) data_->recall(recall.ino);//
