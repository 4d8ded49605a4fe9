already here
