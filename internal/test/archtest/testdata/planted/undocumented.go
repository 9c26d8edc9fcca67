package planted

func Serve() {} // want "Serve has no comment"

type Server struct{} // want "Server has no comment"

func (s *Server) Close() {} // want "Close has no comment"

func (s *Server) String() string { return "" }

type list[T any] struct{}

func (l *list[T]) Append() {}

// Limits.
const (
	MaxBytes = 1
	MaxDepth = 2
)
