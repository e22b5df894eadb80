//! RSA-OAEP for the password exchange of caching_sha2_password
