# Flux runs as the image's own user.
asFlux=""
