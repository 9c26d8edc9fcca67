package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/internal/webpage"
	"github.com/dovetail-go/dovetail/transport/oauth"
	"github.com/dovetail-go/dovetail/transport/store"
)

//go:embed web
var accountFiles embed.FS

// An accountsPage is the content of the page.
type accountsPage struct {
	principal, failure, done string
	servers                  []accountRow
}

// An accountRow is a server on the page.
type accountRow struct {
	alias, url, since                string
	connected, refused, first, asked bool
}

// html returns the page. It has no script. It is not a template: a program with package html/template keeps all exported methods,
// which makes this one a quarter larger.
func (p *accountsPage) html() string {
	text := new(strings.Builder)
	line := func(format string, values ...string) {
		escaped := make([]any, len(values))
		for i, value := range values {
			escaped[i] = html.EscapeString(value)
		}
		fmt.Fprintf(text, format+"\n", escaped...)
	}
	line("<!DOCTYPE html>")
	line(`<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Accounts</title>`)
	line(`<link rel="stylesheet" href="theme.css"><link rel="stylesheet" href="accounts.css">`)
	line("<main><h1>Accounts of %s</h1>", p.principal)
	if p.failure != "" {
		line(`<p class="failure" role="alert">%s</p>`, p.failure)
	}
	if p.done != "" {
		line(`<p role="status">%s</p>`, p.done)
	}
	line("<p>Calls that you make through this gateway use the accounts that you connect here, and nobody else's calls do.</p>")
	line("<ul>")
	for _, s := range p.servers {
		line("<li><h2>%s</h2><p>%s</p>", s.alias, s.url)
		switch {
		case s.refused:
			line("<p>The server does not accept your account any more.</p>")
		case s.connected:
			line("<p>Connected since %s.</p>", s.since)
		default:
			line("<p>Not connected.</p>")
		}
		if s.first {
			line("<p>Nobody's account is known yet. All callers will see the names and descriptions of the tools that yours has.</p>")
		}
		line(`<form method="post"><input type="hidden" name="server" value="%s">`, s.alias)
		if s.connected {
			line(`<button formaction="disconnect" aria-label="Disconnect %s">Disconnect</button>`, s.alias)
		}
		if s.refused || !s.connected {
			focus := ""
			if s.asked {
				focus = "autofocus"
			}
			line(`<button class="accept" formaction="connect" aria-label="Connect %s" %s>Connect</button>`, s.alias, focus)
		}
		line("</form></li>")
	}
	if len(p.servers) == 0 {
		line("<li>No server needs an account of yours.</li>")
	}
	line(`</ul><form method="post" action="%s"><button>Log out</button></form></main></html>`, logoutPath)
	return text.String()
}

// An accountsSite serves the page of accounts. It shows each person their own.
type accountsSite struct {
	*accounts
	people *people
}

// site returns the handler of the page, for people who are logged in.
func (a *accounts) site(of *people) http.Handler {
	s := &accountsSite{a, of}
	files := webpage.New(accountFiles, nil, of.guard)
	mux := http.NewServeMux()
	mux.HandleFunc("/accounts/{$}", s.page(http.MethodGet, s.list))
	mux.HandleFunc("/accounts/callback", s.page(http.MethodGet, s.callback))
	mux.HandleFunc("/accounts/connect", s.page(http.MethodPost, s.connectAccount))
	mux.HandleFunc("/accounts/disconnect", s.page(http.MethodPost, s.disconnectAccount))
	mux.Handle("/accounts/theme.css", files)
	mux.Handle("/accounts/accounts.css", files)
	return of.require(mux)
}

// page returns a handler of requests of people.
func (s *accountsSite) page(method string, serve func(w http.ResponseWriter, r *http.Request, who *browserLogin)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		// The policy does not restrict where the form leads: browsers apply that to the redirects that follow, too.
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin") // the form needs its origin
		header.Set("Cache-Control", "no-store")
		if !s.people.guard.Admit(w, r, method) {
			return
		}
		who, ok := s.people.login(r)
		switch {
		case !ok:
			http.Error(w, "log in first", http.StatusUnauthorized)
		case s.people.origin.Check(r) != nil:
			http.Error(w, "the form did not come from this site", http.StatusForbidden)
		default:
			r.Body = http.MaxBytesReader(w, r.Body, maxForm)
			serve(w, r, who)
		}
	}
}

// maxForm is the maximum size of a form, in bytes.
const maxForm = 64 << 10

// list shows the accounts of a person.
func (s *accountsSite) list(w http.ResponseWriter, r *http.Request, who *browserLogin) {
	query := r.URL.Query()
	alias := query.Get("server")
	if asked := query.Get("asked"); asked != "" {
		principal, err := s.key.Open(r.Context(), asked, []byte("accounts/asked"), time.Now())
		switch {
		case err != nil:
			s.show(w, r, who, http.StatusBadRequest, "This link is too old. You can connect accounts here; then make the call again.", "", alias)
			return
		case string(principal) != who.Name:
			s.show(w, r, who, http.StatusForbidden, "This link was made for somebody else, who has asked for an account of their own. What you connect here is yours, and is not used for them.", "", "")
			return
		}
	}
	done := ""
	if s.server(alias) != nil {
		switch query.Get("done") {
		case "connect":
			done = "Your account at " + alias + " is connected. You can close this window."
		case "disconnect":
			done = "Your account at " + alias + " is disconnected."
		}
	}
	s.show(w, r, who, http.StatusOK, "", done, alias)
}

// show shows the page. failure says what went wrong, and done what went well.
func (s *accountsSite) show(w http.ResponseWriter, r *http.Request, who *browserLogin, status int, failure, done, asked string) {
	page := &accountsPage{principal: who.Name, failure: failure, done: done}
	for _, server := range s.connectable() {
		row := accountRow{alias: server.Alias, url: server.Resolved.URL.String(), first: !server.offers.Load(), asked: server.Alias == asked}
		record, err := s.records.Load(r.Context(), server.nameOf(who.Name))
		switch {
		case err == nil:
			row.connected, row.refused, row.since = true, record.Value.Refused, record.Value.Connected.UTC().Format("2006-01-02 15:04 UTC")
		case !errors.Is(err, store.ErrNotFound):
			s.logger.Error("an account cannot be read", "server", server.Alias, "principal", who.Name, "error", err)
			status, page.failure = http.StatusServiceUnavailable, "Your accounts cannot be read now. Try again later."
		}
		page.servers = append(page.servers, row)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, page.html()) // the person may have left
}

// connectable returns the servers at which people connect accounts, sorted.
func (a *accounts) connectable() []*userServer {
	a.mu.Lock()
	defer a.mu.Unlock()
	var servers []*userServer
	for _, alias := range slices.Sorted(maps.Keys(a.servers)) {
		if s := a.servers[alias]; !s.exchanges() {
			servers = append(servers, s)
		}
	}
	return servers
}

// formServer returns the server of a form, or answers the request.
func (s *accountsSite) formServer(w http.ResponseWriter, r *http.Request, who *browserLogin) *userServer {
	if err := r.ParseForm(); err != nil {
		http.Error(w, "expected a form", http.StatusBadRequest)
		return nil
	}
	server := s.server(r.PostForm.Get("server"))
	if server == nil || server.exchanges() {
		s.show(w, r, who, http.StatusNotFound, "This server is not in the configuration any more.", "", "")
		return nil
	}
	return server
}

// connectAccount sends the browser to the authorization server.
func (s *accountsSite) connectAccount(w http.ResponseWriter, r *http.Request, who *browserLogin) {
	server := s.formServer(w, r, who)
	if server == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), resultTime, errSlowLogin)
	defer cancel()
	to, err := s.connect(ctx, server, who.Name, who.ID)
	if err != nil {
		s.fail(w, r, who, server.Alias, err)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// callback receives the response of an authorization server.
func (s *accountsSite) callback(w http.ResponseWriter, r *http.Request, who *browserLogin) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(query["state"]) != 1 {
		s.show(w, r, who, http.StatusBadRequest, "This is no answer to a login.", "", "")
		return
	}
	alias, err := s.deliver(r.Context(), query, who.Name, who.ID)
	if err != nil {
		s.fail(w, r, who, alias, err)
		return
	}
	s.redirect(w, r, "connect", alias)
}

// disconnectAccount deletes an account.
func (s *accountsSite) disconnectAccount(w http.ResponseWriter, r *http.Request, who *browserLogin) {
	server := s.formServer(w, r, who)
	if server == nil {
		return
	}
	err := s.disconnect(r.Context(), server, who.Name)
	if _, unconfirmed := errors.AsType[*oauth.RevocationError](err); unconfirmed {
		s.show(w, r, who, http.StatusOK, "Your account at "+server.Alias+" is disconnected here, but the server has not confirmed that it has revoked the tokens. You can end the access there.", "", "")
		return
	}
	if err != nil {
		s.fail(w, r, who, server.Alias, err)
		return
	}
	s.redirect(w, r, "disconnect", server.Alias)
}

// redirect shows the page, so that a reload does not repeat what was done.
func (s *accountsSite) redirect(w http.ResponseWriter, r *http.Request, done, alias string) {
	http.Redirect(w, r, s.base+"/accounts/?"+url.Values{"done": {done}, "server": {alias}}.Encode(), http.StatusSeeOther)
}

// fail shows why something was not done.
func (s *accountsSite) fail(w http.ResponseWriter, r *http.Request, who *browserLogin, alias string, err error) {
	s.logger.Info("an account was neither connected nor disconnected", "server", alias, "principal", who.Name, "error", err)
	s.show(w, r, who, http.StatusBadGateway, "It did not work: "+peertext.Cut(peertext.Escape(err.Error()), 512), "", alias)
}
