package netguard_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

func TestURLsThatAreRefused(t *testing.T) {
	guard := sealed(t, netguard.Options{AllowLoopback: true})
	for _, text := range []string{
		"", "/", "//example.com/", "example.com", "http://example.com/", "HTTP://example.com/", "ftp://example.com/", "file:///etc/passwd",
		"gopher://example.com/", "data:text/plain,x", "javascript:alert(1)", "https:example.com", "https:/example.com", "https:///example.com",
		"https://", "https://:443/", "https://user@example.com/", "https://user:secret@example.com/", "https://@example.com/",
		"https://example.com@127.0.0.1/", "https://127.0.0.1@example.com/", "https://example.com:secret@[::1]/", "http://user@localhost/",
		"https://example.com\\@127.0.0.1/", "https://example.com:99999999/", "https://example.com:65536/", "https://example.com:0/", "https://example.com:x/", "https://exa mple.com/", "https://[::1/",
		"https://ex\x00ample.com/", "https://%31%32%37.0.0.1/", "https://b\u00fccher.example/", "https://" + strings.Repeat("a.", 150) + "example/",
		"ws://example.com/", "unix:///var/run/docker.sock", "https+unix://%2Fvar%2Frun/", "https://example.com%00.evil.example/",
	} {
		wantRefused(t, text, guard.Check(text))
		_, err := get(t, guard, text)
		wantRefused(t, "fetching "+text, err)
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells the secret: %v", text, err)
		}
	}
}

func TestURLsThatAreAdmitted(t *testing.T) {
	guard := netguard.New(&netguard.Options{AllowLoopback: true})
	for _, text := range []string{
		"https://example.com", "https://example.com/", "HTTPS://EXAMPLE.COM:8443/a?b#c", "https://example.com./", "https://xn--bcher-kva.example/",
		"https://a_b.example/", "https://1.example/", "https://0x7f.example/", "https://1e100.net/", "https://8.8.8.8:443/", "http://localhost:80/",
		"http://[::1]:1/", "https://metadata.example/", "https://7f000001.example/", "https://beef.cafe/",
	} {
		if err := guard.Check(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestErrorsNameTheURLWithoutItsQuery(t *testing.T) {
	_, err := get(t, netguard.New(nil), "https://10.0.0.1/path?token=hush#hush")
	if want := `"https://10.0.0.1/path" is not fetched: 10.0.0.1 is private (RFC 1918)`; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

// What passes the check is https to a name or to a public address.
func FuzzCheck(f *testing.F) {
	for _, host := range notPublic {
		f.Add("https://" + host + "/")
	}
	for _, seed := range []string{"https://example.com/", "https://8.8.8.8/", "https://[2606:4700::1]/", "http://localhost/", "https://u:p@h/", "https://0x7f.1/"} {
		f.Add(seed)
	}
	guard := netguard.New(nil)
	f.Fuzz(func(t *testing.T, text string) {
		if guard.Check(text) != nil {
			return
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "https" || u.User != nil {
			t.Fatalf("%q passes", text)
		}
		host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
			t.Fatalf("the host of %q passes", text)
		}
		if addr, err := netip.ParseAddr(host); err == nil {
			wantPublic(t, addr)
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, host := range notPublic {
		if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
			f.Add(addr.AsSlice())
		}
	}
	f.Add(netip.MustParseAddr("8.8.8.8").AsSlice())
	guard := netguard.New(nil)
	f.Fuzz(func(t *testing.T, bytes []byte) {
		addr, ok := netip.AddrFromSlice(bytes)
		if !ok {
			return
		}
		if guard.Check("https://"+netip.AddrPortFrom(addr, 443).String()+"/") == nil {
			wantPublic(t, addr)
		}
	})
}

// wantPublic asks the standard library, which knows some of the rules.
func wantPublic(t *testing.T, addr netip.Addr) {
	t.Helper()
	addr = addr.Unmap()
	if addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsUnspecified() || addr.IsMulticast() || !addr.IsGlobalUnicast() || addr.Zone() != "" {
		t.Errorf("%v passes", addr)
	}
}
