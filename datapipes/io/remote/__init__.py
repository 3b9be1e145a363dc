"""Reading from elsewhere: one policy of waiting and trying again, and the few ways in which bytes arrive.

- ``body``: the bytes of a file over HTTP, resumed where they break off
- ``bounded_http``: HTTP connections that never wait past a deadline
- ``drive_page``: what a page of Google Drive says in place of a file
- ``filesystems``: file systems of fsspec under the one policy
- ``remote_file``: a file of such a file system: all of it, or an error
- ``transfer``: transfer, how long to wait and how often to try again, and the clock that keeps it
- ``web``: requests over HTTP, and where redirects may lead
"""
