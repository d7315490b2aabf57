"""Memory that transfers use: pinned, registered, recycled, staging buffers, and what copies in flight keep alive."""
