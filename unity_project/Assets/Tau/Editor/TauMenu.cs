using System.IO;
using UnityEditor;
using UnityEditor.SceneManagement;
using UnityEngine;

namespace Tau.Editor
{
    /// <summary>The menu <c>Tau</c> of the editor. In batch mode its commands do not ask and replace files.</summary>
    public static class TauMenu
    {
        /// <summary>The model that the inference scene loads, inside the project.</summary>
        public const string Model = "Assets/Tau/Resources/Models/TauAgent.onnx";

        /// <summary>Makes <c>Assets/Tau/Scenes/Tau.unity</c>: pairs of agents and trainers on the Tau task.</summary>
        [MenuItem("Tau/Create Training Scene", false, 1)]
        public static void CreateTrainingScene()
        {
            Create(SceneKind.Tau);
        }

        /// <summary>Makes <c>Assets/Tau/Scenes/Tau Balance.unity</c>: balls on platforms, with real physics.</summary>
        [MenuItem("Tau/Create Balance Scene", false, 2)]
        public static void CreateBalanceScene()
        {
            Create(SceneKind.Balance);
        }

        /// <summary>Makes <c>Assets/Tau/Scenes/Tau Inference.unity</c>: the trained model answers questions.</summary>
        [MenuItem("Tau/Create Inference Scene", false, 3)]
        public static void CreateInferenceScene()
        {
            Create(SceneKind.Inference);
        }

        /// <summary>Copies a trained model, chosen in a dialog, to the place from which the inference scene loads
        /// it.</summary>
        [MenuItem("Tau/Copy Trained Model...", false, 20)]
        public static void CopyTrainedModel()
        {
            string source = EditorUtility.OpenFilePanel("Trained model (results/RUN-ID/TauAgent.onnx)", "..", "onnx");
            if (string.IsNullOrEmpty(source))
            {
                return;
            }
            Directory.CreateDirectory(Path.GetDirectoryName(Model));
            if (Path.GetFullPath(source) != Path.GetFullPath(Model))
            {
                File.Copy(source, Model, true);
            }
            AssetDatabase.ImportAsset(Model, ImportAssetOptions.ForceUpdate);
            Debug.Log("Tau: " + source + " is now " + Model + ".");
        }

        /// <summary>Builds <c>Builds/linux/Tau.x86_64</c> in the project's folder.</summary>
        [MenuItem("Tau/Build Headless Linux Player", false, 40)]
        public static void BuildLinuxPlayer()
        {
            if (MayReplaceOpenScene())
            {
                Build.Linux();
            }
        }

        private static void Create(SceneKind kind)
        {
            string path = SceneFiles.PathOf(kind);
            if (!MayReplaceOpenScene() || !MayReplaceFile(path))
            {
                return;
            }
            SceneFiles.AddToBuildSettings(SceneFiles.Create(kind));
            Debug.Log("Tau: " + path + " was made and added to the build settings: press Play.");
        }

        private static bool MayReplaceOpenScene()
        {
            return Application.isBatchMode || EditorSceneManager.SaveCurrentModifiedScenesIfUserWantsTo();
        }

        private static bool MayReplaceFile(string path)
        {
            return Application.isBatchMode
                || !File.Exists(path)
                || EditorUtility.DisplayDialog("Tau", path + " exists. Make it again?", "Make it again", "Keep it");
        }
    }
}
