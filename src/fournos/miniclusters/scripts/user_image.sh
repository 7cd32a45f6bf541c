# Flux runs as the image's own user.
uid=$(id -u)
asFlux=""
