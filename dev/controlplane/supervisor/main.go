// Package main owns one local control plane: it starts etcd, kube-apiserver and kube-controller-manager, says when they
// are ready, and ends them. One process owns all: the children ask the kernel to be killed with it (PR_SET_PDEATHSIG),
// so SIGKILL of this process leaves nothing behind. That needs no privileges, unlike a PID namespace.
//
// It must not know anything of the product: no CRDs, no policies, no namespaces of ours.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func main() {
	dir := flag.String("dir", "", "state directory, made by `up`")
	bin := flag.String("bin", "", "directory of the control plane's binaries")
	foreground := flag.Bool("foreground", false, "end when stdin closes")
	flag.Parse()

	// The death signal follows the *thread* that started a child, not the process: keep main on one that never ends.
	runtime.LockOSThread()

	if err := run(*dir, *bin, *foreground); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

// run returns nil when it was told to stop, an error when it could not start or a child ended by itself.
func run(dir, bin string, foreground bool) error {
	begun := time.Now()
	stop := stopRequests(foreground)

	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	lock, err := takeLock(dir)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return err
	}
	ready := filepath.Join(dir, "ready")
	// Left by an instance that was killed.
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	secrets, err := prepare(dir)
	if err != nil {
		return fmt.Errorf("prepare keys and tokens: %w", err)
	}

	plane := &plane{dir: dir, bin: bin, lock: lock, secrets: secrets, ended: make(chan childEnd, 16)}
	defer plane.killAll()
	switch err := plane.start(stop); {
	case errors.Is(err, errStopped):
		return nil
	case err != nil:
		return err
	}

	took := strconv.FormatFloat(time.Since(begun).Seconds(), 'f', 1, 64)
	if err := os.WriteFile(ready, []byte(took+"\n"), 0o644); err != nil {
		return err
	}
	defer os.Remove(ready)
	if foreground {
		fmt.Printf("ready in %s s: export KUBECONFIG=%s\n", took, shellQuote(filepath.Join(dir, "kubeconfig")))
	}

	select {
	case <-stop:
		return nil
	case end := <-plane.ended:
		return fmt.Errorf("%s ended by itself (%v), last lines of its log:\n%s", end.name, end.err, tail(plane.logPath(end.name)))
	}
}

// takeLock makes sure that one process serves a directory. The children inherit the lock, so it is free again only when
// every one of them is gone: `down` waits for exactly that.
func takeLock(dir string) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("%s is in use by another control plane: %w", dir, err)
	}
	return file, nil
}

// stopRequests is closed at the first signal, and in the foreground when whoever holds our stdin closes it or dies.
func stopRequests(foreground bool) <-chan struct{} {
	stop := make(chan struct{})
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	stdinClosed := make(chan struct{})
	if foreground {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(stdinClosed)
		}()
	}
	go func() {
		select {
		case <-signals:
		case <-stdinClosed:
		}
		close(stop)
	}()
	return stop
}
