package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certs DIRECTORY NODE-NAME NODE-ADDRESS SERVICE-ADDRESS writes a certificate authority made on the spot and one
// key pair for each party. It is here because Python's standard library cannot sign a certificate.
func certs() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: certs DIRECTORY NODE-NAME NODE-ADDRESS SERVICE-ADDRESS")
		os.Exit(2)
	}
	dir, node, addresses := os.Args[1], os.Args[2], os.Args[3:]
	authority := template("streamjob-cluster")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key := newKey()
	write(dir, "ca", authority, authority, key, key)

	server := template("kube-apiserver")
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	server.DNSNames = []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "localhost", node}
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, address := range addresses {
		server.IPAddresses = append(server.IPAddresses, net.ParseIP(address))
	}
	issue := func(name string, leaf *x509.Certificate) { write(dir, name, leaf, authority, newKey(), key) }
	issue("server", server) // the kubelet serves with it too: same machine, same address

	issue("admin", client("streamjob-admin", "system:masters"))
	issue("controller-manager", client("system:kube-controller-manager"))
	issue("scheduler", client("system:kube-scheduler"))
	issue("kubelet", client("system:node:"+node, "system:nodes"))
	issue("proxy", client("system:kube-proxy"))
	issue("service-accounts", template("service-accounts"))
}

func template(name string, groups ...string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(err)
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: groups},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

func client(name string, groups ...string) *x509.Certificate {
	leaf := template(name, groups...)
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return leaf
}

func newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	return key
}

func write(dir, name string, leaf, parent *x509.Certificate, key, signer crypto.Signer) {
	signed, err := x509.CreateCertificate(rand.Reader, leaf, parent, key.Public(), signer)
	check(err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	check(err)
	save(filepath.Join(dir, name+".crt"), "CERTIFICATE", signed)
	save(filepath.Join(dir, name+".key"), "PRIVATE KEY", secret)
}

func save(path, kind string, content []byte) {
	check(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
