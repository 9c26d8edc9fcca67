package era

// Mode returns Modern or Legacy: the mode that opens another session of this era with the same
// server without asking it for its versions.
func (s *Session) Mode() Mode {
	if s.version.Modern() {
		return Modern
	}
	return Legacy
}
