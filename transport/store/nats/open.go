package nats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/dovetail-go/dovetail/internal/sharedfile"
	"github.com/dovetail-go/dovetail/transport/store"
)

// Defaults of [Options].
const (
	defaultPrefix  = "dovetail"
	defaultTimeout = 5 * time.Second
)

// Options configure a [Store]. The zero value is ready to use. All replicas of a server must
// have the same Prefix, Replicas and Limits.
type Options struct {
	// Prefix is the name of the bucket of values, and begins the names of the streams and of
	// the subjects of messages. It consists of at most 32 ASCII letters, digits, "-" and "_".
	// Default "dovetail".
	Prefix string
	// Limits bound what the store holds.
	Limits store.Limits
	// Timeout is how long an operation may take. Default 5 s.
	Timeout time.Duration
	// Logger receives a warning if [Connect] cannot reach the server. Default slog.Default().
	Logger *slog.Logger
	// Token is a secret that clients show to the server, to the embedded server or to another server that expects a
	// token.
	Token string

	// Replicas is the number of servers of a cluster that store each value, 1, 3 or 5.
	// Default 1. For [Connect] only.
	Replicas int
	// Client are further options of the connection, for example [nats.UserCredentials] or [nats.Secure]. The store sets
	// the options for reconnection, handlers and time limits itself. For [Connect] only.
	Client []nats.Option

	// Listen is a loopback address, for example "127.0.0.1:4222", at which other processes of
	// the machine reach the embedded server. It needs a Token. Port 0 chooses a port; see
	// [Store.URL]. Default: none can. For [Embedded] only.
	Listen string
	// Sync is how long a stored value may remain in the memory of the operating system before
	// it is written to disk. With 0, the default, an operation returns after that: nothing
	// is lost if the machine fails. Otherwise what was stored during the last Sync is lost if
	// the machine fails, and nothing if only the process ends. For [Embedded] only.
	Sync time.Duration
}

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

func (o *Options) withDefaults() (Options, error) {
	var options Options
	if o != nil {
		options = *o
	}
	options.Prefix = cmp.Or(options.Prefix, defaultPrefix)
	options.Timeout = cmp.Or(options.Timeout, defaultTimeout)
	options.Logger = cmp.Or(options.Logger, slog.Default())
	options.Replicas = cmp.Or(options.Replicas, 1)
	if !validPrefix.MatchString(options.Prefix) {
		return options, fmt.Errorf("the option Prefix %q, expected at most 32 letters, digits, - and _", options.Prefix)
	}
	if options.Timeout < 0 || options.Replicas < 0 || options.Sync < 0 {
		return options, errors.New("the options Timeout, Replicas and Sync must not be negative")
	}
	var err error
	options.Limits, err = options.Limits.WithDefaults()
	return options, err
}

// Connect returns a store in a server, or in a cluster, with JetStream. url has the form
// "nats://host:port"; the addresses of several servers are separated by commas. opts may be nil. Connect
// creates the streams if they do not exist, and updates them if the options have changed. It returns an error if the server
// refuses the connection or the options, if it has no valid certificate, or if ctx ends.
//
// If no address can be reached within [Options].Timeout, or the server does not answer, Connect logs a warning and returns
// the store: its operations fail until they can. It tries the addresses one after the other, each for its share of the Timeout,
// but at least a second. ctx does not limit the use of the store. The caller must close the store.
func Connect(ctx context.Context, url string, opts *Options) (*Store, error) {
	options, err := opts.withDefaults()
	if err == nil && (options.Listen != "" || options.Sync != 0) {
		err = errors.New("the fields Listen and Sync are options of Embedded")
	}
	var s *Store
	if err == nil {
		s, err = connect(url, &options)
	}
	if err == nil {
		err = s.start(ctx)
		if ctx.Err() == nil && isTemporary(err) {
			options.Logger.Warn("nats: the server cannot be reached; operations of the store fail until it can", "error", err)
			err = nil
		}
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("nats: connecting: %w", err)
	}
	return s, nil
}

// Embedded starts a server in this process, which stores its files in the folder dir, and
// connects to it. It creates the folder. An error is returned if another process uses the
// folder. The caller must close the store, which stops the server.
func Embedded(dir string, opts *Options) (*Store, error) {
	options, err := opts.withDefaults()
	if err == nil && (options.Replicas != 1 || options.Client != nil) {
		err = errors.New("the fields Replicas and Client are options of Connect")
	}
	var s *Store
	if err == nil {
		s, err = embedded(dir, &options)
	}
	if err != nil {
		return nil, fmt.Errorf("nats: starting a server in %s: %w", dir, err)
	}
	return s, nil
}

func embedded(dir string, options *Options) (_ *Store, err error) {
	config := server.Options{
		ServerName: "embedded", // the same name each time, which JetStream expects
		DontListen: true,
		JetStream:  true,
		StoreDir:   dir,
		SyncAlways: options.Sync == 0, SyncInterval: options.Sync,
		Authorization: options.Token,
		NoSigs:        true,
		NoLog:         true,
	}
	if options.Listen != "" {
		host, port, err := loopback(options.Listen)
		if err != nil {
			return nil, err
		}
		if options.Token == "" {
			return nil, errors.New("the option Listen needs a Token, because all users of the machine reach the address")
		}
		config.Host, config.Port, config.DontListen = host, port, false
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := lock(dir)
	if err != nil {
		return nil, err
	}
	engine, err := start(&config, options.Timeout)
	if err == nil {
		options.Client = []nats.Option{nats.InProcessServer(engine)}
		var s *Store
		if s, err = connect("", options); err == nil {
			s.server, s.lock = engine, lock
			if !config.DontListen {
				s.url = engine.ClientURL()
			}
			if err = s.start(context.Background()); err != nil {
				return nil, errors.Join(err, s.Close())
			}
			return s, nil
		}
		stop(engine)
	}
	return nil, errors.Join(err, lock.Close())
}

// loopback splits an address of this machine. Without encryption, others must not be used.
func loopback(address string) (host string, port int, err error) {
	host, number, err := net.SplitHostPort(address)
	if err == nil {
		port, err = strconv.Atoi(number)
	}
	if err == nil && !net.ParseIP(host).IsLoopback() {
		err = fmt.Errorf("%s is no loopback address; for several machines run nats-server, and use Connect", address)
	}
	if err == nil && port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, err
}

// lock locks a folder, because JetStream does not.
func lock(dir string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second) // for a process that is ending
	defer cancel()
	file, err := sharedfile.OpenLocked(ctx, filepath.Join(dir, "lock"))
	if errors.Is(err, context.DeadlineExceeded) {
		err = sharedfile.ErrLocked
	}
	return file, err
}

// start starts a server.
func start(config *server.Options, timeout time.Duration) (*server.Server, error) {
	engine, err := server.NewServer(config)
	if err != nil {
		return nil, err
	}
	var failure fatalError
	engine.SetLoggerV2(&failure, false, false, false)
	engine.Start()
	err = failure.get()
	if err == nil && !engine.ReadyForConnections(timeout) {
		err = errors.New("it does not become ready")
	}
	if err != nil {
		stop(engine)
		return nil, err
	}
	return engine, nil
}

func stop(engine *server.Server) {
	engine.Shutdown()
	engine.WaitForShutdown()
}

// fatalError is a logger that remembers why a server does not start.
type fatalError struct {
	mu  sync.Mutex
	err error
}

func (f *fatalError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *fatalError) Fatalf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = fmt.Errorf(format, args...)
}

func (f *fatalError) Noticef(string, ...any) {}
func (f *fatalError) Warnf(string, ...any)   {}
func (f *fatalError) Errorf(string, ...any)  {}
func (f *fatalError) Debugf(string, ...any)  {}
func (f *fatalError) Tracef(string, ...any)  {}

// connect returns a store that connects to a server, now or later.
func connect(url string, options *Options) (*Store, error) {
	s := &Store{
		prefix:   options.Prefix,
		limits:   options.Limits,
		timeout:  options.Timeout,
		replicas: options.Replicas,
		joining:  make(chan struct{}, 1),
		workers:  map[string]bool{},
		closed:   make(chan struct{}),
		tried:    make(chan struct{}),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.epoch, s.nextEpoch = context.WithCancel(context.Background())
	tried := sync.OnceFunc(func() { close(s.tried) })
	addresses := time.Duration(strings.Count(url, ",") + 1)
	client := append([]nats.Option{nats.Name("dovetail")}, options.Client...)
	client = append(client,
		nats.Timeout(max(options.Timeout/addresses, min(options.Timeout, time.Second))),
		nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(), // the server may accept the connection later
		nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(func(int) time.Duration {
			s.noteRefusal()
			return retryPause + rand.N(retryPause) //nolint:gosec // spreads the attempts of replicas
		}),
		nats.PingInterval(5*time.Second),
		nats.MaxPingsOutstanding(2),
		// A message that cannot be sent is an error, and must not be sent later.
		nats.ReconnectBufSize(-1),
		nats.SyncQueueLen(maxBehind),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), // not to standard error
		nats.ConnectHandler(func(*nats.Conn) { s.connected(); tried() }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { s.disconnected(err) }),
		nats.ReconnectHandler(func(*nats.Conn) { s.connected() }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { s.unreachable(err); tried() }),
		nats.ClosedHandler(func(*nats.Conn) { close(s.closed) }),
	)
	if options.Token != "" {
		client = append(client, nats.Token(options.Token))
	}
	conn, err := nats.Connect(url, client...)
	if err != nil {
		s.end()
		s.nextEpoch()
		return nil, err
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	if s.js, err = jetstream.New(conn); err == nil {
		// For settle. The subscriptions of stores that connect at the same time have effect while the
		// streams are looked up.
		_, err = conn.Subscribe(s.storesSubject(), func(*nats.Msg) {})
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// start waits until the first attempt to connect has ended, and prepares the streams.
func (s *Store) start(ctx context.Context) error {
	select {
	case <-s.tried:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.reachable(); err != nil {
		return err
	}
	return s.do(ctx, func(context.Context) error { return nil })
}
