package netguard_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

// notPublic are hosts in many spellings that some resolver, library or network would
// connect to a non-public address.
var notPublic = []string{
	// This machine.
	"127.0.0.1", "127.0.0.1.", "127.0.0.2", "127.255.255.254", "[::1]", "[0:0:0:0:0:0:0:1]", "[::0001]",
	"localhost", "LOCALHOST", "localhost.", "a.localhost", "a.b.LocalHost.", "0.0.0.0", "0.1.2.3", "[::]", "[0::0]",
	// In other bases, and with parts left out.
	"127.1", "127.0.1", "2130706433", "017700000001", "0177.0.0.1", "0177.0.0.01", "0x7f000001", "0x7f.0x0.0x0.0x1",
	"0X7F.1", "0x7F.0.0.1", "00127.0.0.1", "127.0.0.01", "127.000.000.001", "0", "0.0", "0x0", "0x", "1.2.3.4.5",
	"4294967295", "127.0.0.1.0x", "256.256.256.256", "999.1.1.1", "169.254.43518", "0xa9fea9fe", "2852039166",
	// In other characters.
	"１２７.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "127．0．0．1", "ⓛocalhost", "127.0.0.1\u200b", "loca\u00adlhost",
	// IPv4 inside IPv6.
	"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::FFFF:10.0.0.1]", "[0:0:0:0:0:ffff:7f00:0001]", "[::127.0.0.1]", "[::7f00:1]",
	"[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b::8.8.8.8]",
	"[64:ff9b:1::1]", "[64:ff9b:1:fffe::7f00:1]", "[2002:7f00:1::]", "[2002:7f00:0001::1]", "[2002:a9fe:a9fe::1]",
	"[2002:808:808::1]", "[2001:0:7f00:1::]", "[2001::1]", "[2001:0:4136:e378:8000:63bf:3fff:fdd2]",
	// Private networks, link-local addresses, what clouds serve their secrets on.
	"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1", "192.168.255.255", "100.64.0.1",
	"100.127.255.255", "100.100.100.200", "169.254.169.254", "169.254.170.2", "169.254.0.1", "[fe80::1]", "[fe80::1%25eth0]",
	"[febf::1]", "[fc00::1]", "[fd00:ec2::254]", "[fdff::1]", "[fec0::1]", "168.63.129.16", "192.0.0.192", "[::ffff:169.254.169.254]",
	"[::ffff:a9fe:a9fe]", "[2606:4700::1%25lo]",
	// Not for traffic at all.
	"192.0.0.8", "192.0.2.1", "198.51.100.7", "203.0.113.9", "192.88.99.1", "198.18.0.1", "198.19.255.255", "224.0.0.1",
	"239.255.255.250", "240.0.0.1", "255.255.255.255", "[ff02::1]", "[ff0e::1]", "[2001:db8::1]", "[3fff::1]", "[100::1]",
	"[2001:2::1]", "[2001:10::1]", "[2001:20::1]", "[5f00::1]", "[4000::1]", "[1::1]", "[e000::1]", "[200::1]",
	// No hosts.
	"", ".", "..", "a..b", "a b", "a%20b", "a_b!", "exa\tmple.com", "xn--\u00e4",
}

func TestAddressesThatAreNotPublicAreRefused(t *testing.T) {
	guard := sealed(t, netguard.Options{})
	for _, host := range notPublic {
		for _, url := range []string{"https://" + host + "/", "https://" + host + ":8443/x", "http://" + host + "/"} {
			_, err := get(t, guard, url)
			wantRefused(t, url, err)
			wantRefused(t, "checking "+url, guard.Check(url))
		}
	}
}

func TestPublicAddressesAreConnectedTo(t *testing.T) {
	guard, connected := watched(t, netguard.Options{})
	for host, want := range map[string]string{
		"8.8.8.8": "8.8.8.8", "1.1.1.1": "1.1.1.1", "11.0.0.1": "11.0.0.1", "9.255.255.255": "9.255.255.255",
		"172.15.255.255": "172.15.255.255", "172.32.0.1": "172.32.0.1", "100.63.255.255": "100.63.255.255", "100.128.0.1": "100.128.0.1",
		"169.253.255.255": "169.253.255.255", "192.167.1.1": "192.167.1.1", "168.63.129.17": "168.63.129.17", "223.255.255.255": "223.255.255.255",
		"192.0.1.1": "192.0.1.1", "198.20.0.1": "198.20.0.1", "[2606:4700:4700::1111]": "2606:4700:4700::1111", "[2001:4860:4860::8888]": "2001:4860:4860::8888",
		"[2003::1]": "2003::1", "[3ffe::1]": "3ffe::1", "[2001:200::1]": "2001:200::1", "[::ffff:8.8.8.8]": "8.8.8.8",
	} {
		_, err := get(t, guard, "https://"+host+"/")
		if !errors.Is(err, errStop) {
			t.Errorf("%s: %v", host, err)
		}
		if got := connected(); !slices.Equal(got, []netip.Addr{netip.MustParseAddr(want)}) {
			t.Errorf("%s connects to %v, want %s", host, got, want)
		}
	}
}

// Names are resolved for each connection, and the connection goes to the checked address.
func TestNameThatIsReboundIsRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, inside := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "fd00::1", "0.0.0.0", "::"} {
		inside := netip.MustParseAddr(inside)
		public := netip.MustParseAddr("8.8.8.8")
		if inside.Is6() {
			public = netip.MustParseAddr("2606:4700::1")
		}
		guard, connected := watched(t, netguard.Options{Resolver: resolver(func(_ string, v6 bool, n int) []netip.Addr {
			switch {
			case v6 != inside.Is6():
				return nil
			case n%2 == 1:
				return []netip.Addr{public}
			}
			return []netip.Addr{inside}
		})})
		_, port, _ := net.SplitHostPort(listener.Addr().String())
		url := "https://rebinding.example:" + port + "/"
		for range 3 {
			if err := guard.Check(url); err != nil {
				t.Fatal(err)
			}
			_, err := get(t, guard, url)
			if got := connected(); !errors.Is(err, errStop) || !slices.Equal(got, []netip.Addr{public}) {
				t.Errorf("%v: the public address: %v, %v", inside, got, err)
			}
			_, err = get(t, guard, url)
			wantRefused(t, inside.String(), err)
			if got := connected(); got != nil {
				t.Errorf("%v: connects to %v", inside, got)
			}
		}
	}
	wantNoConnection(t, listener)
}

// Only the public ones of several addresses are tried.
func TestNameWithSeveralAddresses(t *testing.T) {
	public := netip.MustParseAddr("8.8.8.8")
	guard, connected := watched(t, netguard.Options{Resolver: resolver(func(_ string, v6 bool, _ int) []netip.Addr {
		if v6 {
			return []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("fd00::1")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), public, netip.MustParseAddr("10.0.0.1")}
	})})
	if _, err := get(t, guard, "https://several.example/"); err == nil {
		t.Error("the fetch succeeded")
	}
	for _, addr := range connected() {
		if addr != public {
			t.Errorf("connects to %v", addr)
		}
	}
}

// With AllowLoopback, only names of this machine lead to it.
func TestLoopbackByOptIn(t *testing.T) {
	opts := netguard.Options{AllowLoopback: true, Resolver: resolver(func(name string, v6 bool, _ int) []netip.Addr {
		switch {
		case v6:
			return nil
		case name == "elsewhere.localhost.":
			return []netip.Addr{netip.MustParseAddr("8.8.8.8")}
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	})}
	guard, connected := watched(t, opts)
	for _, host := range []string{"127.0.0.1", "127.8.9.1", "[::1]", "[::ffff:127.0.0.1]", "localhost", "app.localhost", "Localhost."} {
		for _, scheme := range []string{"http://", "https://"} {
			if _, err := get(t, guard, scheme+host+":9/"); !errors.Is(err, errStop) {
				t.Errorf("%s%s: %v", scheme, host, err)
			}
			for _, addr := range connected() {
				if !addr.Unmap().IsLoopback() {
					t.Errorf("%s%s connects to %v", scheme, host, addr)
				}
			}
		}
	}
	for _, url := range []string{
		"https://rebinding.example/", "http://rebinding.example/", "http://elsewhere.localhost/", "https://elsewhere.localhost/",
		"http://8.8.8.8/", "https://10.0.0.1/", "http://0.0.0.0/", "http://[::]/", "https://127.1/", "http://localhost.example/",
	} {
		_, err := get(t, guard, url)
		wantRefused(t, url, err)
	}
	if got := connected(); got != nil {
		t.Errorf("connects to %v", got)
	}
}

func TestNetworksByOptIn(t *testing.T) {
	allow := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32")}
	guard, connected := watched(t, netguard.Options{Allow: allow})
	allow[0] = netip.MustParsePrefix("0.0.0.0/0") // too late
	for _, host := range []string{"10.1.2.3", "[::ffff:10.1.2.3]", "[fd00:1::9]"} {
		if _, err := get(t, guard, "https://"+host+"/"); !errors.Is(err, errStop) {
			t.Errorf("%s: %v", host, err)
		}
		connected()
	}
	for _, url := range []string{"https://10.2.0.1/", "https://[fd00:2::9]/", "http://10.1.2.3/", "https://127.0.0.1/", "https://[64:ff9b::10.1.2.3]/"} {
		_, err := get(t, guard, url)
		wantRefused(t, url, err)
	}
}

// A failure of the resolver is not a RefusedError.
func TestLookupThatFails(t *testing.T) {
	guard, _ := watched(t, netguard.Options{Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errStop
	}}})
	_, err := get(t, guard, "https://name.example/?secret")
	if _, ok := errors.AsType[*net.DNSError](err); !ok {
		t.Errorf("the error is %v", err)
	}
}

// wantNoConnection checks that a listener has no connection.
func wantNoConnection(t *testing.T, listener net.Listener) {
	t.Helper()
	mine, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	first, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.RemoteAddr().String() != mine.LocalAddr().String() {
		t.Errorf("a connection from %v", first.RemoteAddr())
	}
}

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

// An allowed URL is https to a name or a public address.
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

// wantPublic compares with the rules that the standard library knows.
func wantPublic(t *testing.T, addr netip.Addr) {
	t.Helper()
	addr = addr.Unmap()
	if addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsUnspecified() || addr.IsMulticast() || !addr.IsGlobalUnicast() || addr.Zone() != "" {
		t.Errorf("%v passes", addr)
	}
}
