module sprite-operator.io/dev/controlplane/prometheus-operator

go 1.26.0

// Its CustomResourceDefinitions alone are used: no package of it is built.
require github.com/prometheus-operator/prometheus-operator v0.85.0
