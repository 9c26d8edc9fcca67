package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/httptransport"
	"github.com/dovetail-go/dovetail/transport/streamable"
)

// adminVariable is the variable with the token of operators.
const adminVariable = "DOVETAIL_ADMIN_TOKEN"

// maxAdminAnswer bounds an answer of a program, in bytes.
const maxAdminAnswer = 8 << 20

var adminCommand = &command{
	name: "admin", args: "[FLAGS] status, or admin [FLAGS] tasks|sessions list|cancel|retry [ID…]", short: "look at, and change, a running dovetail serve",
	long: `dovetail serve -http prints a token for operators, which all replicas with one -store accept. It is
read from the variable ` + adminVariable + `.

  status                what works and what does not; the exit status is 2 unless all does
  tasks list            the tasks of all replicas that have not ended, with -ended also those that have
  tasks cancel ID…      cancel tasks: one that waits ends, and one that runs may go on
  tasks retry ID…       give tasks that wait for a worker to the workers again; none runs twice because of it
  sessions list         the sessions that clients of versions until 2025-11-25 have open at this replica
  sessions cancel ID…   end sessions, at all replicas`,
	run: runAdmin,
}

// adminRun has the flags of dovetail admin.
type adminRun struct {
	env           *environment
	url, token    string
	asJSON, ended bool
	client        *http.Client
}

func runAdmin(ctx context.Context, env *environment, sub *command, line []string) error {
	a := &adminRun{env: env, token: os.Getenv(adminVariable), client: httptransport.NewClient(nil)}
	defer a.client.CloseIdleConnections()
	var timeout time.Duration
	flags := newFlags(sub, env.stderr)
	flags.StringVar(&a.url, "url", "http://127.0.0.1:8900", "the `URL` of the running program")
	flags.BoolVar(&a.asJSON, "json", false, "print JSON")
	flags.BoolVar(&a.ended, "ended", false, "list also tasks that have ended")
	flags.DurationVar(&timeout, "timeout", time.Minute, "bound on the command")
	args, command, err := flags.parse(line)
	switch {
	case err != nil:
		return err
	case command != nil || len(args) == 0:
		return flags.usage()
	case a.token == "":
		return misuse("the variable %s has no token: dovetail serve prints it", adminVariable)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	verbs := map[string][]string{"tasks": {"list", "cancel", "retry"}, "sessions": {"list", "cancel"}}
	switch {
	case len(args) == 1 && args[0] == "status":
		return a.status(ctx)
	case len(args) == 2 && args[1] == "list" && verbs[args[0]] != nil:
		return a.list(ctx, args[0])
	case len(args) > 2 && args[1] != "list" && slices.Contains(verbs[args[0]], args[1]):
		for _, id := range args[2:] {
			if err := a.send(ctx, http.MethodPost, args[0]+"/"+url.PathEscape(id)+"/"+args[1], nil); err != nil {
				return fmt.Errorf("%.256q: %w", id, err)
			}
		}
		return nil
	}
	return flags.usage()
}

// send sends a request and decodes the answer, unless answer is nil.
func (a *adminRun) send(ctx context.Context, method, path string, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(a.url, "/")+"/admin/"+path, http.NoBody) //nolint:gosec // the operator names the URL
	if err != nil {
		return misuse("-url: %v", err)
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := a.client.Do(request) //nolint:gosec // as above
	if err != nil {
		return &unreachableError{err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAdminAnswer))
	if err != nil {
		return &unreachableError{err}
	}
	if response.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("the program does not accept the token of %s", adminVariable)
	}
	var refused struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &refused) == nil && refused.Error != "" {
		return errors.New(peertext.Escape(refused.Error))
	}
	// The status of a program in which something does not work has status 503.
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusServiceUnavailable {
		return fmt.Errorf("%s does not answer as dovetail serve: status %d", a.url, response.StatusCode)
	}
	if answer == nil {
		return nil
	}
	if a.asJSON {
		var indented bytes.Buffer
		if err := json.Indent(&indented, body, "", "  "); err != nil {
			return err
		}
		fmt.Fprintln(a.env.stdout, strings.TrimSuffix(indented.String(), "\n"))
	}
	return json.Unmarshal(body, answer)
}

func (a *adminRun) status(ctx context.Context) error {
	s := &programStatus{}
	if err := a.send(ctx, http.MethodGet, "status", s); err != nil {
		return err
	}
	if !a.asJSON {
		a.printStatus(s)
	}
	if !s.isFine() || !s.Ready {
		return checkFailed
	}
	return nil
}

func (a *adminRun) printStatus(s *programStatus) {
	rows := [][]string{{"version", peertext.Escape(s.Version)}, {"ready", fmt.Sprint(s.Ready)}, {"draining", fmt.Sprint(s.Draining)}, {"wedged", fmt.Sprint(s.Wedged)}}
	if s.Store == nil {
		rows = append(rows, []string{"store", "none: state ends with the program"})
	} else {
		ofStore, ofKeys := peertext.Escape(s.Store.Error), ""
		if s.Store.Status == "reachable" {
			ofStore, ofKeys = "", ofStore
		}
		rows = append(rows, []string{"store", s.Store.Status + " " + ofStore}, []string{"keys", s.Store.Keys + " " + ofKeys})
	}
	for _, server := range s.Servers {
		rows = append(rows, []string{"server", fmt.Sprintf("%s %s since %s, started again %s, %s %s", peertext.Escape(server.Alias), server.Status,
			server.Since.Format(time.DateTime), count(server.Restarts, "time"), count(server.Tools, "tool"), peertext.Escape(server.Error))})
	}
	a.print(rows)
}

func (a *adminRun) list(ctx context.Context, what string) error {
	if what == "sessions" {
		var sessions []streamable.SessionState
		if err := a.send(ctx, http.MethodGet, what, &sessions); err != nil || a.asJSON {
			return err
		}
		rows := [][]string{{"ID", "CALLER", "VERSION", "REQUESTS", "UNTIL"}}
		for _, s := range sessions {
			rows = append(rows, []string{peertext.Escape(s.ID), caller(s.Principal, s.Network), string(s.Version), fmt.Sprint(s.Requests), s.Until.Format(time.DateTime)})
		}
		a.print(rows)
		return nil
	}
	if a.ended {
		what += "?ended=true"
	}
	var tasks []server.TaskState
	if err := a.send(ctx, http.MethodGet, what, &tasks); err != nil || a.asJSON {
		return err
	}
	rows := [][]string{{"ID", "CALLER", "TOOL", "STATUS", "SINCE", "ATTEMPTS", "MESSAGE"}}
	for _, t := range tasks {
		status := string(t.Status)
		if t.Waits {
			status = "waits for a worker"
		}
		rows = append(rows, []string{peertext.Escape(t.ID), caller(t.Principal, t.Network), cmp.Or(peertext.Escape(t.Tool), "-"), status, t.Updated.Format(time.DateTime),
			fmt.Sprint(t.Attempts), peertext.Escape(t.Message)})
	}
	a.print(rows)
	return nil
}

// caller returns a name for a client.
func caller(principal, network string) string {
	return cmp.Or(peertext.Escape(principal), peertext.Escape(network), "-")
}

// print prints rows in columns.
func (a *adminRun) print(rows [][]string) {
	columns := tabwriter.NewWriter(a.env.stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(columns, strings.TrimRight(strings.Join(row, "\t"), " "))
	}
	_ = columns.Flush() // as other commands, it does not report that standard output is closed
}
