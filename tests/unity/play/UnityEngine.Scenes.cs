using System;
using System.Collections.Generic;
using System.Linq;

namespace UnityEngine.SceneManagement
{
    /// <summary>A scene, of which there may be several open at a time.</summary>
    internal sealed class SceneState
    {
        /// <summary>Its objects that hang under no other.</summary>
        public List<GameObject> Roots { get; } = new List<GameObject>();

        /// <summary>Its name.</summary>
        public string Name { get; set; } = "";

        /// <summary>It is open.</summary>
        public bool IsLoaded { get; set; } = true;
    }

    /// <summary>A handle on a scene.</summary>
    public readonly struct Scene
    {
        private readonly SceneState _state;

        internal Scene(SceneState state)
        {
            _state = state;
        }

        /// <summary>It is open.</summary>
        public bool isLoaded => _state != null && _state.IsLoaded;

        /// <summary>Its name.</summary>
        public string name => _state?.Name;

        internal SceneState State => _state;

        /// <summary>Its objects that hang under no other.</summary>
        /// <exception cref="ArgumentException">The scene is not open, in Unity's words.</exception>
        public GameObject[] GetRootGameObjects()
        {
            return isLoaded ? _state.Roots.ToArray() : throw new ArgumentException("The scene is not loaded.");
        }
    }

    /// <summary>The open scenes.</summary>
    public static class SceneManager
    {
        private static readonly List<SceneState> Open = new List<SceneState>();
        private static readonly List<SceneState> Leaving = new List<SceneState>();

        /// <summary>Number of open scenes.</summary>
        public static int sceneCount => Open.Count;

        internal static SceneState Active { get; private set; }

        internal static SceneState[] All => Open.ToArray();

        /// <summary>An open scene by its position.</summary>
        public static Scene GetSceneAt(int index)
        {
            return new Scene(Open[index]);
        }

        /// <summary>The scene that new objects come into.</summary>
        public static Scene GetActiveScene()
        {
            return new Scene(Active);
        }

        /// <summary>A new, empty scene beside those that are open; names must differ.</summary>
        public static Scene CreateScene(string name)
        {
            if (Open.Any(scene => scene.Name == name))
            {
                throw new ArgumentException($"Scene with name \"{name}\" already exists.");
            }
            var made = new SceneState { Name = name };
            Open.Add(made);
            return new Scene(made);
        }

        /// <summary>New objects come into this scene from now on.</summary>
        public static void SetActiveScene(Scene scene)
        {
            Active = scene.State;
        }

        /// <summary>Closes a scene; as in Unity not at once.</summary>
        public static void UnloadSceneAsync(Scene scene)
        {
            Leaving.Add(scene.State);
        }

        /// <summary>Closes scenes that were asked to close.</summary>
        internal static void CloseLeaving()
        {
            SceneState[] leaving = Leaving.ToArray();
            Leaving.Clear();
            Array.ForEach(leaving, World.Close);
        }

        internal static void Remove(SceneState scene)
        {
            Open.Remove(scene);
            if (Active == scene && Open.Count > 0)
            {
                Active = Open[0];
            }
        }

        internal static void Reset()
        {
            Open.Clear();
            Leaving.Clear();
            Active = CreateScene("Untitled").State;
        }
    }
}
