// Takes the token out of the address bar and the history.
location.replace("/");
