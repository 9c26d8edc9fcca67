package page

// Names returns the names of the files.
func Names() []string {
	var names []string
	for name := range load(Options{}) {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}
