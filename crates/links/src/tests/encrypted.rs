//! Encrypted links: certificates of one authority, each for its node's name.

use std::{
    fs,
    path::{Path, PathBuf},
};

use boxoffice_env::Lane;
use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

use super::common::{Node, config, link_all, open, until};
use crate::{PeerConfig, PeerTls, PeersError};

/// An authority, and a directory for its certificates.
pub(crate) struct Authority {
    dir: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("authority.pem"), issuer.pem()).unwrap();
        Authority { dir, issuer }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The files of a certificate for this name.
    pub(crate) fn files(&self, name: &str) -> PeerTls {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let (certificate_file, key_file) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        fs::write(&certificate_file, certificate.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        PeerTls { certificate: certificate_file, key: key_file, authority: self.path("authority.pem") }
    }
}

fn with(tls: PeerTls) -> PeerConfig {
    PeerConfig { tls: Some(tls), ..config() }
}

fn know_each_other(one: &Node, two: &Node) {
    one.knows(&[(2, two.address())]);
    two.knows(&[(1, one.address())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_certificates_of_one_authority_are_linked() {
    let authority = Authority::new();
    let (one, two) = (Node::with(1, with(authority.files("node-1"))), Node::with(2, with(authority.files("node-2"))));
    link_all(&[&one, &two]).await;
    for number in 0..100_u8 {
        one.send(2, Lane::Bulk, Bytes::from(vec![number; 100_000])).await;
        two.send(1, Lane::Calls, Bytes::from(vec![number; 10])).await;
    }
    until("all have come", || two.received(1, Lane::Bulk).len() == 100 && one.received(2, Lane::Calls).len() == 100)
        .await;
    assert!((0..100_u8).zip(two.received(1, Lane::Bulk)).all(|(number, came)| came == vec![number; 100_000]));
    one.reaches(&two, Lane::Consensus, b"and consensus").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_another_authority_is_refused_by_both_sides() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (one, two) = (Node::with(1, with(authority.files("node-1"))), Node::with(2, with(other.files("node-2"))));
    know_each_other(&one, &two);
    one.reports(2, "invalid peer certificate").await;
    // Node 3 trusts the authority of node 4, but not the other way round.
    let trusting = PeerTls { authority: other.path("authority.pem"), ..authority.files("node-3") };
    let three = Node::with(3, with(trusting));
    three.knows(&[(4, two.address())]);
    let two_as_four = Node::with(4, with(other.files("node-4")));
    three.knows(&[(4, two_as_four.address())]);
    two_as_four.knows(&[(3, three.address())]);
    until("the caller is refused", || two_as_four.net.port_counts().aborted > 0).await;
    assert_eq!((one.link_changes(2), three.link_changes(4), two_as_four.link_changes(3)), (vec![], vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_node_is_refused() {
    let authority = Authority::new();
    // The acceptor's certificate is for another node, and the dialer notices.
    let (one, two) = (Node::with(1, with(authority.files("node-1"))), Node::with(2, with(authority.files("node-7"))));
    know_each_other(&one, &two);
    one.reports(2, "invalid peer certificate").await;
    // The dialer's certificate is for another node, and the acceptor notices.
    let (one, two) = (Node::with(1, with(authority.files("node-8"))), Node::with(2, with(authority.files("node-2"))));
    know_each_other(&one, &two);
    two.reports(1, "refused: node 1 has no certificate for the name node-1").await;
    one.reports(2, "refused by the other side: node 1 has no certificate for the name node-1").await;
    assert_eq!((one.link_changes(2), two.link_changes(1)), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewed_certificates_are_for_new_links_and_cut_none() {
    let (authority, next) = (Authority::new(), Authority::new());
    let files = [authority.files("node-1"), authority.files("node-2")];
    let [one, two] = [(1, 0), (2, 1)].map(|(id, place): (u64, usize)| Node::with(id, with(files[place].clone())));
    link_all(&[&one, &two]).await;
    assert!(!one.net.reload_certificates().unwrap(), "nothing has changed");
    // Another authority signs from now on. A node that does not trust it refuses its certificates.
    let three = Node::with(3, with(next.files("node-3")));
    one.knows(&[(2, two.address()), (3, three.address())]);
    two.knows(&[(1, one.address()), (3, three.address())]);
    three.knows(&[(1, one.address()), (2, two.address())]);
    one.reports(3, "invalid peer certificate").await;
    for (name, files) in ["node-1", "node-2"].into_iter().zip(&files) {
        let renewed = next.files(name);
        let pairs = [
            (&renewed.certificate, &files.certificate),
            (&renewed.key, &files.key),
            (&renewed.authority, &files.authority),
        ];
        pairs.into_iter().for_each(|(from, to)| _ = fs::copy(from, to).unwrap());
    }
    assert!(one.net.reload_certificates().unwrap() && two.net.reload_certificates().unwrap());
    one.linked(3).await;
    two.linked(3).await;
    one.reaches(&two, Lane::Calls, b"over the link that stands").await;
    assert_eq!((one.link_changes(2), two.link_changes(1)), (vec![true], vec![true]), "that link was never lost");
    // Half a file changes nothing.
    fs::write(&files[0].certificate, "-----BEGIN CERTIFICATE-----").unwrap();
    assert!(one.net.reload_certificates().is_err());
    assert!(!one.net.reload_certificates().unwrap(), "reported once");
    one.reaches(&three, Lane::Calls, b"as before").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_unencrypted_side_is_refused() {
    let authority = Authority::new();
    let (one, two) = (Node::new(1), Node::with(2, with(authority.files("node-2"))));
    know_each_other(&one, &two);
    one.reports(2, "is it encrypted on one side only?").await;
    let (one, two) = (Node::with(1, with(authority.files("node-1"))), Node::new(2));
    know_each_other(&one, &two);
    until("it is counted", || two.net.port_counts().aborted > 0).await;
    assert!(one.link_changes(2).is_empty());
}

#[tokio::test]
async fn unusable_files_are_named() {
    let authority = Authority::new();
    let right = authority.files("node-1");
    let error_of = |tls: PeerTls| match open(with(tls)) {
        Err(PeersError::Tls { file, what }) => (file.file_name().unwrap().to_string_lossy().into_owned(), what),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the files were accepted"),
    };
    let text = authority.path("text");
    fs::write(&text, "no PEM at all").unwrap();
    let broken = authority.path("broken");
    let certificate = fs::read_to_string(&right.certificate).unwrap();
    fs::write(&broken, certificate.replacen("MII", "M!!", 1)).unwrap();
    let absent = |file: &str| Path::new("/nowhere").join(file);
    let of = |file: &str, what: &str| (file.to_owned(), what.to_owned());
    let (file, what) = error_of(PeerTls { certificate: absent("a"), ..right.clone() });
    assert!(file == "a" && what.starts_with("it cannot be read: "), "{file}: {what}");
    let (file, what) = error_of(PeerTls { key: absent("k"), ..right.clone() });
    assert!(file == "k" && what.starts_with("it cannot be read: "), "{file}: {what}");
    assert_eq!(
        error_of(PeerTls { certificate: text.clone(), ..right.clone() }),
        of("text", "it has no certificate in PEM")
    );
    assert_eq!(
        error_of(PeerTls { authority: text.clone(), ..right.clone() }),
        of("text", "it has no certificate in PEM")
    );
    let (file, what) = error_of(PeerTls { key: text, ..right.clone() });
    assert!(file == "text" && what.starts_with("it has no private key that can be read"), "{what}");
    let (file, what) = error_of(PeerTls { authority: broken, ..right.clone() });
    assert!(file == "broken" && what.starts_with("it is not a PEM file that can be read"), "{what}");
    let (file, what) = error_of(PeerTls { key: authority.files("node-2").key, ..right });
    assert!(file == "node-1.pem" && what.contains("does not go with the key"), "{what}");
}
