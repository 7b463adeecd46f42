package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// secrets are an instance's own keys and tokens. They are made once and kept in DIR/pki (0700) until `down`, so that an
// instance that is stopped and started again in the same directory keeps its data, port and kubeconfigs.
type secrets struct {
	caPEM                    []byte
	adminToken, managerToken string
	port                     int
}

func prepare(dir string) (*secrets, error) {
	pki := filepath.Join(dir, "pki")
	for _, sub := range []string{pki, filepath.Join(dir, "etcd")} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return nil, err
	}
	// tokens.csv is written last: where it exists, everything else does.
	if _, err := os.Stat(filepath.Join(pki, "tokens.csv")); errors.Is(err, os.ErrNotExist) {
		if err := writeKeys(pki); err != nil {
			return nil, err
		}
	}
	return load(pki)
}

func load(pki string) (*secrets, error) {
	loaded := &secrets{}
	var err error
	if loaded.caPEM, err = os.ReadFile(filepath.Join(pki, "ca.crt")); err != nil {
		return nil, err
	}
	tokens, err := os.ReadFile(filepath.Join(pki, "tokens.csv"))
	if err != nil {
		return nil, err
	}
	for _, line := range strings.Split(strings.TrimSpace(string(tokens)), "\n") {
		switch fields := strings.Split(line, ","); {
		case len(fields) > 1 && fields[1] == "admin":
			loaded.adminToken = fields[0]
		case len(fields) > 1:
			loaded.managerToken = fields[0]
		}
	}
	if text, err := os.ReadFile(filepath.Join(pki, "port")); err == nil {
		loaded.port, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	return loaded, nil
}

func writeKeys(pki string) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	ca := template("sprite-operator local control plane CA")
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return err
	}

	serverKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := template("kube-apiserver")
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)}
	serverDER, err := x509.CreateCertificate(rand.Reader, server, ca, serverKey.Public(), caKey)
	if err != nil {
		return err
	}

	accountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accountPublic, err := x509.MarshalPKIXPublicKey(accountKey.Public())
	if err != nil {
		return err
	}

	// The CA's own key is not kept: nothing here signs a second certificate.
	return errors.Join(
		writePEM(pki, "ca.crt", "CERTIFICATE", caDER),
		writePEM(pki, "apiserver.crt", "CERTIFICATE", serverDER),
		writePrivateKey(pki, "apiserver.key", serverKey),
		writePrivateKey(pki, "sa.key", accountKey),
		writePEM(pki, "sa.pub", "PUBLIC KEY", accountPublic),
		writeTokens(pki),
	)
}

func template(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // never fails: crypto/rand aborts instead
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
	}
}

func writePrivateKey(pki, name string, key crypto.PrivateKey) error {
	ecKey, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return fmt.Errorf("%s: not an EC key", name)
	}
	der, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		return err
	}
	return writePEM(pki, name, "EC PRIVATE KEY", der)
}

func writePEM(pki, name, kind string, der []byte) error {
	return os.WriteFile(filepath.Join(pki, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func writeTokens(pki string) error {
	lines := randomToken() + ",admin,admin,system:masters\n" +
		randomToken() + ",system:kube-controller-manager,system:kube-controller-manager\n"
	partial := filepath.Join(pki, "tokens.csv.partial")
	if err := os.WriteFile(partial, []byte(lines), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, filepath.Join(pki, "tokens.csv"))
}

func randomToken() string {
	var bytes [32]byte
	_, _ = rand.Read(bytes[:]) // never fails: crypto/rand aborts instead
	return hex.EncodeToString(bytes[:])
}

func serverURL(port int) string { return "https://127.0.0.1:" + strconv.Itoa(port) }

// writeKubeconfigs: DIR/kubeconfig is the admin's. Everything is embedded, so that the file can be copied elsewhere.
func (s *secrets) writeKubeconfigs(dir string, port int) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "pki", "port"), []byte(strconv.Itoa(port)+"\n"), 0o600),
		s.writeKubeconfig(filepath.Join(dir, "kubeconfig"), port, s.adminToken),
		s.writeKubeconfig(filepath.Join(dir, "pki", "controller-manager.kubeconfig"), port, s.managerToken),
	)
}

func (s *secrets) writeKubeconfig(path string, port int, token string) error {
	const format = `apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: user
  user:
    token: %s
contexts:
- name: local
  context:
    cluster: local
    user: user
current-context: local
`
	text := fmt.Sprintf(format, serverURL(port), base64.StdEncoding.EncodeToString(s.caPEM), token)
	partial := path + ".partial"
	if err := os.WriteFile(partial, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}
