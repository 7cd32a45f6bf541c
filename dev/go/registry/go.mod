// A container registry in memory, from which the tests pull the chart.  A module of its own, as promtool's.
module fournos.dev/registry

go 1.25.0

tool github.com/google/go-containerregistry/cmd/registry

require github.com/google/go-containerregistry v0.22.1 // indirect
