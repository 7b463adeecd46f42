// Package main is etcd itself: the server of go.etcd.io/etcd, built at the version Kubernetes is tested with.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
