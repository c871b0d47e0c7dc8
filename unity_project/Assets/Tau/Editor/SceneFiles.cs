using System.Collections.Generic;
using System.IO;
using Tau.Core;
using UnityEditor;
using UnityEditor.SceneManagement;
using UnityEngine.SceneManagement;

namespace Tau.Editor
{
    /// <summary>The project's scenes as files: each is made in code, saved, and listed for builds.</summary>
    public static class SceneFiles
    {
        /// <summary>The folder of the scene files, inside the project.</summary>
        public const string Folder = "Assets/Tau/Scenes";

        /// <summary>Every scene, in the order in which a build holds them; a build starts with the first.</summary>
        public static readonly IReadOnlyList<SceneKind> All = new[]
        {
            SceneKind.Tau,
            SceneKind.Balance,
            SceneKind.Inference,
        };

        /// <summary>Path of a scene's file, inside the project.</summary>
        public static string PathOf(SceneKind kind)
        {
            return Folder + "/" + TauSceneBuilder.NameOf(kind) + ".unity";
        }

        /// <summary>
        /// Makes a scene in code, in place of the open one, and saves it, over an earlier file if there is one.
        /// </summary>
        /// <returns>The path of its file, inside the project.</returns>
        /// <exception cref="TauException">Unity could not write the file.</exception>
        public static string Create(SceneKind kind)
        {
            string path = PathOf(kind);
            if (!AssetDatabase.IsValidFolder(Folder))
            {
                Directory.CreateDirectory(Folder);
                AssetDatabase.Refresh();
            }
            Scene scene = EditorSceneManager.NewScene(NewSceneSetup.EmptyScene, NewSceneMode.Single);
            TauSceneBuilder.Build(kind);
            if (!EditorSceneManager.SaveScene(scene, path))
            {
                throw new TauException(
                    "The scene " + path
                    + " cannot be written: check that the folder can be written to and the disk has room.");
            }
            return path;
        }

        /// <summary>
        /// The paths of all scenes for a build. A file that exists is taken as it is, so that what was changed in it by
        /// hand counts; one that does not is made.
        /// </summary>
        /// <param name="made">The paths of those that were made now.</param>
        /// <exception cref="TauException">Unity could not write a file.</exception>
        public static string[] Ensure(out IReadOnlyList<string> made)
        {
            var paths = new string[All.Count];
            var fresh = new List<string>();
            for (int i = 0; i < paths.Length; i++)
            {
                paths[i] = PathOf(All[i]);
                if (!File.Exists(paths[i]))
                {
                    fresh.Add(Create(All[i]));
                }
            }
            made = fresh;
            return paths;
        }

        /// <summary>Puts a scene on the list of the build settings, if it is not on it.</summary>
        public static void AddToBuildSettings(string path)
        {
            var scenes = new List<EditorBuildSettingsScene>(EditorBuildSettings.scenes);
            foreach (EditorBuildSettingsScene scene in scenes)
            {
                if (scene.path == path)
                {
                    return;
                }
            }
            scenes.Add(new EditorBuildSettingsScene(path, true));
            EditorBuildSettings.scenes = scenes.ToArray();
        }
    }
}
