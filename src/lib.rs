//! sprite-operator: runs untrusted agent code in Fly Sprites, driven by Kubernetes resources.
