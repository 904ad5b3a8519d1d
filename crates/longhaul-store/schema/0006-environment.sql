-- The network of a run: network, loopback, or lab:NAME. NULL for imported results, and for runs of
-- earlier versions, which did not record it; of those, only loopback can be told by the address.
ALTER TABLE run ADD COLUMN environment TEXT;
UPDATE run SET environment = 'loopback'
    WHERE responder_address LIKE '127.%' OR responder_address = '::1';
