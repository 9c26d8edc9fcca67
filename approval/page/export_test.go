package page

// Names are the names of the files.
func Names() []string {
	var names []string
	for name := range load(Options{}) {
		if name != "" {
			names = append(names, name)
		}
	}
	return names
}
