//! `.rawko` is a folder of the project, and not a link: rawko writes sessions and memories into it. (Memories refuse to be a link by
//! themselves.)

use std::path::Path;

use crate::error::Error;

/// Refuses a project whose `.rawko`, or its folder of sessions, is a link. A repository can bring one along,
/// which has rawko write wherever it leads, and gives protected files another name.
///
/// # Errors
/// [`Error::Setup`] that names the link.
pub fn check_project_folder(project: &Path) -> Result<(), Error> {
    let links = [".rawko", ".rawko/sessions"];
    match links.map(|name| project.join(name)).iter().find(|path| path.is_symlink()) {
        None => Ok(()),
        Some(link) => Err(Error::Setup {
            message: format!("{} is a link, and rawko does not write through one", link.display()),
            hint: "put a folder in its place: remove the link, then move there what it leads to, if that is yours"
                .to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// `links`: name and target, in a project that has a folder `inside`.
    #[track_caller]
    fn check(links: &[(&str, &str)], refused: Option<&str>) {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir_all(project.join("inside")).unwrap();
        for (name, target) in links {
            let path = project.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            symlink(target, path).unwrap();
        }
        let found = check_project_folder(&project).map_err(|error| error.to_string());
        let shown = refused.map(|name| project.join(name).display().to_string());
        match shown {
            None => assert_eq!(found, Ok(())),
            Some(shown) => assert!(found.unwrap_err().starts_with(&format!("{shown} is a link"))),
        }
    }

    #[test]
    fn a_link_is_refused_wherever_it_leads() {
        check(&[], None);
        check(&[(".rawko/agents", "../inside")], None);
        check(&[(".rawko", "inside")], Some(".rawko"));
        check(&[(".rawko", "/tmp")], Some(".rawko"));
        check(&[(".rawko", "nowhere")], Some(".rawko"));
        check(&[(".rawko/sessions", "/tmp")], Some(".rawko/sessions"));
    }
}
