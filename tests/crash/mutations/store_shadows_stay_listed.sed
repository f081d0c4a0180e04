# server/store/store_shadows.cc
# the list of shadows holds although slots have changed since
# store
s/  return has_list_ ? say_shadows_are_kept(false) : Status();/  return Status();/
