package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	etcdName      = "etcd"
	apiServerName = "kube-apiserver"
	managerName   = "kube-controller-manager"

	// A small machine that compiles at the same time can need many times the usual 3 s.
	startDeadline = 120 * time.Second
	pollInterval  = 20 * time.Millisecond
	portTries     = 8

	// Below the kernel's ephemeral range, so that no outgoing connection or `bind(0)` takes the port between probe and bind.
	firstPort, lastPort = 20000, 32000
)

var errStopped = errors.New("stopped while starting")

type childEnd struct {
	name string
	err  error
}

// plane is the three processes of one control plane.
type plane struct {
	dir, bin string
	lock     *os.File
	secrets  *secrets
	children []*exec.Cmd
	ended    chan childEnd
}

func (p *plane) logPath(name string) string { return filepath.Join(p.dir, "log", name+".log") }

// start returns when a client can work: ready, and the ServiceAccount of the namespace `default` exists.
func (p *plane) start(stop <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), startDeadline)
	defer cancel()

	if err := p.startEtcd(ctx, stop); err != nil {
		return err
	}
	if err := p.startAPIServer(ctx, stop); err != nil {
		return err
	}
	if err := p.spawn(managerName, p.managerArgs()); err != nil {
		return err
	}
	return p.await(ctx, stop, managerName, p.answersOK("/api/v1/namespaces/default/serviceaccounts/default"))
}

// startEtcd serves on a unix socket: no port to lose to someone else, no other user who can read the store.
// The path is relative because socket paths are short (108 bytes) and test directories are not;
// etcd wants something that looks like a port in every address, so the socket's name ends in `:0`.
func (p *plane) startEtcd(ctx context.Context, stop <-chan struct{}) error {
	for _, name := range []string{"client.sock:0", "peer.sock:0"} {
		// Left by an instance that was killed; the lock says that nobody listens there.
		if err := os.Remove(filepath.Join(p.dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	err := p.spawn(etcdName, []string{
		"--name=local", "--data-dir=etcd", "--log-level=warn",
		"--listen-client-urls=unix://client.sock:0", "--advertise-client-urls=unix://client.sock:0",
		"--listen-peer-urls=unix://peer.sock:0", "--initial-advertise-peer-urls=unix://peer.sock:0",
		"--initial-cluster=local=unix://peer.sock:0",
		"--unsafe-no-fsync",
	})
	if err != nil {
		return err
	}
	return p.await(ctx, stop, etcdName, func(context.Context) bool {
		_, err := os.Stat(filepath.Join(p.dir, "client.sock:0"))
		return err == nil
	})
}

// startAPIServer tries other ports when one is taken between our probe and its bind.
func (p *plane) startAPIServer(ctx context.Context, stop <-chan struct{}) error {
	var lastErr error
	for try := range portTries {
		port, err := p.choosePort(try == 0)
		if err != nil {
			return err
		}
		if err := p.secrets.writeKubeconfigs(p.dir, port); err != nil {
			return err
		}
		if err := p.spawn(apiServerName, p.apiServerArgs(port)); err != nil {
			return err
		}
		lastErr = p.await(ctx, stop, apiServerName, p.answersOK("/readyz"))
		if lastErr == nil || !strings.Contains(tail(p.logPath(apiServerName)), "address already in use") {
			return lastErr
		}
	}
	return lastErr
}

// choosePort prefers the port of an earlier run in this directory, so that kubeconfigs stay good across a restart.
func (p *plane) choosePort(first bool) (int, error) {
	if first && p.secrets.port != 0 && isFree(p.secrets.port) {
		return p.secrets.port, nil
	}
	for range 1000 {
		if port := firstPort + rand.IntN(lastPort-firstPort); isFree(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d", firstPort, lastPort)
}

func isFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

func (p *plane) apiServerArgs(port int) []string {
	p.secrets.port = port
	return []string{
		"--etcd-servers=unix://client.sock:0",
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
		// No Pods here that could reach it through the Service, and a machine without a default route must do.
		"--advertise-address=192.0.2.1", "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--cert-dir=pki", "--tls-cert-file=pki/apiserver.crt", "--tls-private-key-file=pki/apiserver.key",
		"--token-auth-file=pki/tokens.csv", "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-signing-key-file=pki/sa.key", "--service-account-key-file=pki/sa.pub",
		"--profiling=false",
	}
}

// managerArgs names the controllers that matter without nodes; the rest would only cost memory and list calls.
func (p *plane) managerArgs() []string {
	return []string{
		"--kubeconfig=pki/controller-manager.kubeconfig",
		"--use-service-account-credentials", "--service-account-private-key-file=pki/sa.key", "--root-ca-file=pki/ca.crt",
		"--leader-elect=false", "--secure-port=0", "--profiling=false",
		// With the default of 20/s a new namespace waits seconds for its ServiceAccount.
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--controllers=" + strings.Join([]string{
			"namespace-controller", "serviceaccount-controller", "serviceaccount-token-controller",
			"root-ca-certificate-publisher-controller", "garbage-collector-controller",
			"clusterrole-aggregation-controller", "resourcequota-controller",
			"validatingadmissionpolicy-status-controller",
		}, ","),
	}
}

// spawn starts a child that dies with us. Its end is reported on p.ended.
func (p *plane) spawn(name string, args []string) error {
	log, err := os.OpenFile(p.logPath(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{p.lock}
	cmd.Env = append(withoutProxies(os.Environ()), "HOME="+p.dir)
	// Setpgid: Ctrl-C at a terminal reaches only us; we end the children in one place.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p.children = append(p.children, cmd)
	go func() { p.ended <- childEnd{name, cmd.Wait()} }()
	return p.writePids()
}

// writePids lets a test stop (SIGSTOP) or kill one part.
func (p *plane) writePids() error {
	var lines strings.Builder
	for _, child := range p.children {
		fmt.Fprintf(&lines, "%s %d\n", filepath.Base(child.Path), child.Process.Pid)
	}
	return os.WriteFile(filepath.Join(p.dir, "pids"), []byte(lines.String()), 0o644)
}

// withoutProxies: everything here is on loopback; a company proxy must not see it. etcd also takes flags from ETCD_*.
func withoutProxies(environ []string) []string {
	var kept []string
	for _, pair := range environ {
		name := strings.ToUpper(strings.SplitN(pair, "=", 2)[0])
		if !strings.HasSuffix(name, "_PROXY") && !strings.HasPrefix(name, "ETCD_") {
			kept = append(kept, pair)
		}
	}
	return kept
}

// await polls until the condition holds. A child that ends, a request to stop and the deadline end it early.
func (p *plane) await(ctx context.Context, stop <-chan struct{}, name string, holds func(context.Context) bool) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if holds(ctx) {
			return nil
		}
		select {
		case <-stop:
			return errStopped
		case end := <-p.ended:
			return fmt.Errorf("%s ended while starting (%v), last lines of its log:\n%s", end.name, end.err, tail(p.logPath(end.name)))
		case <-ctx.Done():
			return fmt.Errorf("%s not ready in %s, last lines of its log:\n%s", name, startDeadline, tail(p.logPath(name)))
		case <-ticker.C:
		}
	}
}

// answersOK asks as admin. Our own CA is the only one trusted: another server on the same port is not taken for ours.
func (p *plane) answersOK(path string) func(context.Context) bool {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.secrets.caPEM)
	client := &http.Client{
		Timeout:   5 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}},
	}
	return func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, serverURL(p.secrets.port)+path, nil)
		if err != nil {
			return false
		}
		request.Header.Set("Authorization", "Bearer "+p.secrets.adminToken)
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
}

// killAll needs no grace: the data is a test's. Waiting for the ends is what makes "nothing left behind" true.
func (p *plane) killAll() {
	for _, child := range p.children {
		_ = child.Process.Kill()
	}
	deadline := time.After(10 * time.Second)
	for _, child := range p.children {
		for child.Process.Signal(syscall.Signal(0)) == nil {
			select {
			case <-p.ended:
			case <-deadline:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

// tail is the end of a log, for error messages.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// shellQuote makes a path safe to paste into a shell.
func shellQuote(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
