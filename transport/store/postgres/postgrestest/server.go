// Package postgrestest starts PostgreSQL servers for tests. It runs the programs initdb and pg_ctl from
// /usr/lib/postgresql, or from the folder DOVETAIL_POSTGRES_SERVER.
package postgrestest

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// ErrNotInstalled is the error of [Start] on a machine without PostgreSQL.
var ErrNotInstalled = errors.New("PostgreSQL is not installed: DOVETAIL_POSTGRES_SERVER is the folder with initdb and pg_ctl")

// programs returns the folder with the programs of the newest server.
func programs() (string, error) {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if configured := os.Getenv("DOVETAIL_POSTGRES_SERVER"); configured != "" {
		folders = []string{configured}
	}
	if err != nil || len(folders) == 0 {
		return "", cmp.Or(err, ErrNotInstalled)
	}
	return slices.Max(folders), nil
}

// A Server is a cluster of databases in a temporary folder, which only listens at a socket. It does not sync the disk.
type Server struct {
	programs, dir string
	as            *syscall.SysProcAttr // the server refuses to run as root
}

// Start returns a server that runs. The caller must call Remove. The error wraps [ErrNotInstalled] if there is none.
func Start() (*Server, error) {
	folder, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "postgres") // t.TempDir is too long for a socket
	if err != nil {
		return nil, err
	}
	s := &Server{programs: folder, dir: dir}
	if err := s.init(); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

func (s *Server) init() error {
	if os.Getuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			account, err = user.Lookup("nobody")
		}
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		s.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return err
		}
	}
	if err := s.run("initdb", "--pgdata", s.data(), "--auth", "trust", "--username", "owner", "--encoding", "UTF8",
		"--locale", "C", "--no-sync", "--no-instructions"); err != nil {
		return err
	}
	return s.Start()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// run runs a program of the server. Its output is in a file, which is part of the error: a server that it starts would
// keep a pipe open.
func (s *Server) run(program string, args ...string) error {
	log, err := os.Create(filepath.Join(s.dir, program))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = s.dir, log, log, s.as
	if err := cmd.Run(); err != nil {
		output, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%s: %w\n%s", program, err, output)
	}
	return nil
}

// Start starts a server that was stopped, and waits until it accepts connections.
func (s *Server) Start() error {
	return s.run("pg_ctl", "start", "--wait", "--pgdata", s.data(), "--log", filepath.Join(s.dir, "log"), "--options",
		"-c fsync=off -c listen_addresses= -c max_connections=300 -c shared_buffers=32MB -k "+s.dir)
}

// Stop ends the server as if it had crashed.
func (s *Server) Stop() error {
	return s.run("pg_ctl", "stop", "--wait", "--pgdata", s.data(), "--mode", "immediate")
}

// Remove stops the server and removes its folder.
func (s *Server) Remove() {
	_ = s.Stop() // it may not run
	os.RemoveAll(s.dir)
}

// URL returns the URL of the database as the superuser.
func (s *Server) URL() string { return "postgres:///postgres?host=" + s.dir + "&user=owner" }
