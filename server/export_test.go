package server

// Retained returns how many bytes the clients of a server have left behind.
func Retained(s *Server) int64 { return s.retained.Held() }
