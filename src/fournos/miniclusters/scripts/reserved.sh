# The Job makes another pod, free of charge, where this script ends with the code for "was told to stop": code of
# the user's that ends with it means something else.
# Reads: reserved
told=false

trap 'code=$?; [[ $told == true || $code -ne $reserved ]] || exit 1' EXIT
