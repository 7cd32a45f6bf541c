if [[ $stopping == false ]]; then
  remember "$result"
fi
