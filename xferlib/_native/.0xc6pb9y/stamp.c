__attribute__((visibility("default"))) const unsigned int xf_fingerprint = 1946973618u;
