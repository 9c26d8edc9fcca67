package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/dovetail-go/dovetail/transport/oauth"
)

// logIn gets a token for the target, if that is wanted.
func (t *target) logIn(ctx context.Context, stderr io.Writer) error {
	if !t.login {
		return nil
	}
	u, err := url.Parse(t.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("-login is for a server at a URL that begins with http:// or https://")
	}
	store, err := tokenStore()
	if err != nil {
		return err
	}
	t.tokens, err = oauth.NewClient(&oauth.ClientOptions{
		Name: "Inspect", Store: store, AllowLoopback: isLoopback(u.Hostname()),
		Flow: &oauth.CodeFlow{Open: func(ctx context.Context, to string) error {
			fmt.Fprintf(stderr, "a browser opens to log in; if none does, open %s\n", to)
			_ = oauth.OpenBrowser(ctx, to) // then a person does
			return nil
		}},
	})
	if err != nil {
		return err
	}
	return t.tokens.Login(ctx, t.url)
}

// isLoopback says whether a host is this machine: then so may be its authorization server.
func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}

// tokenStore is where tokens are kept, with the caches of the person; the key to it is
// with the person's configuration, so that a copy of the caches is worth nothing.
func tokenStore() (*oauth.FileStore, error) {
	caches, err := folder(os.UserCacheDir())
	if err != nil {
		return nil, err
	}
	configuration, err := folder(os.UserConfigDir())
	if err != nil {
		return nil, err
	}
	key, err := fileKey(filepath.Join(configuration, "key"))
	if err != nil {
		return nil, err
	}
	return oauth.NewFileStore(filepath.Join(caches, "tokens"), key)
}

// folder is that of this program in another, for the person alone.
func folder(within string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	own := filepath.Join(within, "dovetail-inspect")
	return own, os.MkdirAll(own, 0o700)
}

// fileKey reads a key, or makes one. Of two programs that make one at the same time, one
// fails.
func fileKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	key = make([]byte, oauth.MinFileKey)
	_, _ = rand.Read(key) // it never fails
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	_, err = file.Write(key)
	return key, errors.Join(err, file.Close())
}
