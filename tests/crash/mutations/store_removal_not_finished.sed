# server/service/brick_service.cc
# who finds a volume that goes leaves what there is of it
# store
s/^  TRY(volumes_.finish_removals(why));$//
