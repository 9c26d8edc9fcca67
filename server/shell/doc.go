// Package shell offers tools with which a model runs programs in a workspace: commands, commands
// in the background, shell sessions, git, ports and a task list. Package workspace has the tools for files.
//
//	func main() {
//		guard := process.Main() // must be the first call in main
//		…
//		w, err := workspace.Open(dir, &workspace.Options{Protected: []string{".git"}})
//		…
//		sh, err := shell.New(guard, w, nil)
//		…
//		defer sh.Close()
//		files, err := workspace.Tools(w)
//		…
//		tools, err := sh.Tools()
//		…
//		err = s.Replace(append(files, tools...)...)
//
// # Tools
//
//	run_command        runs a shell command to its end: exit code, output, progress, timeout
//	run_background     starts a command that goes on, such as a server
//	background_list    lists these commands
//	background_read    returns their output
//	background_write   writes to their standard input
//	background_stop    ends one
//	session_open       opens a named shell that keeps its directory, variables and functions
//	session_run        runs a command in it: exit code, output, directory, progress, timeout
//	session_list       lists the open sessions
//	session_close      ends one
//	git_status         and git_diff, git_log, git_show, git_branch, git_checkout, git_add and git_commit: the
//	                   repository in the workspace
//	git_push           pushes a branch to one of [Options].PushURLs, if there are any
//	npm_install        and npm_run and npm_test: packages and scripts of Node.js, with [Options].NPM
//	register_port      waits until a server of a command listens, and returns its URL
//	todo_read          and todo_write: a list of tasks
//
// # Sessions
//
// Each call of run_command is a new shell. A session is one shell for many commands, bash or, where
// there is none, sh: cd, export and functions affect later commands, and processes started with &
// continue. Several sessions may be open. Each runs one command at a time and refuses a second one
// until then. A command that exceeds its timeout is interrupted with SIGINT, as Ctrl+C does in a
// terminal, and the session stays open. One SIGINT leaves one function, and the caller of the
// function goes on; so SIGINT is repeated every 500 milliseconds. The session is closed if the
// command has not ended after five seconds, and when the shell ends, for example at exit or at a
// failure after "set -e". Windows has no sessions.
//
// SIGINT also reaches the processes that earlier commands have started with &. Shells start them
// so that they ignore it, but programs with a handler of their own, such as many servers, end. Use
// run_background for servers.
//
// # Credentials
//
// A model should not see secrets. [Shell.Credentials] has them by name:
//
//	err := sh.Credentials().Set("github", "GITHUB_TOKEN", token)
//
// A command or session that names one gets it as an environment variable, and its output is
// redacted.
//
// # Guarantees
//
//  1. All processes of a command end with it, and with this program, as package process says. The
//     commands run as the user of this program, with access to all its files. Use a container
//     for code that you do not trust.
//  2. The git tools run no programs that the repository names: no hooks, pagers, filters or diff
//     programs. They use a repository only if all its parts are inside of the workspace. They
//     need git 2.38 or newer. Protect ".git" in workspace.Options, so that the file tools do not
//     change it. git_checkout changes no protected file. Only git_push reaches the network, and
//     only the URLs of the operator.
//  3. The numbers of commands, processes, background commands, sessions, ports and tasks are
//     bounded, and so are the kept output and the time of a command. A call that exceeds a limit
//     gets an error that says so, and changes nothing.
//  4. The proxy of a registered port listens on 127.0.0.1 and refuses foreign host names, which
//     protects against DNS rebinding. It forwards WebSockets and no other upgrade.
//  5. All callers share the background commands, sessions, ports and tasks of a [Shell]. Use one
//     Shell for each user who must not see what others use.
//  6. [Shell.Close] ends everything that the tools have started and waits for it.
package shell
