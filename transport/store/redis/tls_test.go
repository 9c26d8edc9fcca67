package redis_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dovetail-go/dovetail/internal/test/porttest"
	"github.com/dovetail-go/dovetail/transport/store/redis"
)

// A store connects with TLS, a user name and a password. The certificate is verified.
func TestTLS(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SSL_CERT_FILE is for Linux")
	}
	certificate, key := certify(t)
	t.Setenv("SSL_CERT_FILE", certificate)
	port := fmt.Sprint(porttest.Free(t))
	newServer(t, "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key,
		"--tls-ca-cert-file", certificate, "--tls-auth-clients", "no", "--bind", "127.0.0.1",
		"--user", "shop", "on", ">correct-secret", "~{dovetail}:*", "&{dovetail}:*", "+@all")
	address := "127.0.0.1:" + port

	s := connect(t, "rediss://shop:correct-secret@"+address, nil)
	if _, err := s.Create(t.Context(), "key", []byte("value"), 0); err != nil {
		t.Fatal(err)
	}
	if item, err := s.Get(t.Context(), "key"); err != nil || string(item.Value) != "value" {
		t.Errorf("Get: %+v, %v", item, err)
	}
	t.Run("client", func(t *testing.T) {
		authorities := x509.NewCertPool()
		data, err := os.ReadFile(certificate)
		if err != nil || !authorities.AppendCertsFromPEM(data) {
			t.Fatal(err)
		}
		client := newStore(t, goredis.NewClient(&goredis.Options{
			Addr: address, Username: "shop", Password: "correct-secret", TLSConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS13},
			MaxRetries: -1, ContextTimeoutEnabled: true,
		}), nil)
		if item, err := client.Get(t.Context(), "key"); err != nil || string(item.Value) != "value" {
			t.Errorf("Get: %+v, %v", item, err)
		}
	})
	for _, test := range []struct{ name, url, want string }{
		{"another password", "rediss://shop:wrong-secret@" + address, "WRONGPASS"},
		{"another name of the server", "rediss://shop:correct-secret@localhost:" + port, "certificate"},
		{"no TLS", "redis://shop:correct-secret@" + address, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := redis.Connect(t.Context(), test.url, &redis.Options{Timeout: 2 * time.Second})
			if err == nil && test.name == "no TLS" { // nothing says that the server can be reached with TLS
				_, err = s.Get(t.Context(), "key")
				s.Close()
			}
			if err == nil {
				t.Fatal("Connect succeeded")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "-secret") {
				t.Errorf("Connect: %v, want %q, and no password", err, test.want)
			}
		})
	}
}

// certify writes a certificate for 127.0.0.1, which is its own authority, and its key to files.
func certify(t *testing.T) (certificateFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("certificate", "CERTIFICATE", certificate), write("key", "PRIVATE KEY", private)
}
